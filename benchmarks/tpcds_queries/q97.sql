-- How many pairs of a customer and an item occur in stores only, by catalog only, and in both?
WITH in_store AS (
  SELECT DISTINCT ss_customer_sk AS customer_sk, ss_item_sk AS item_sk
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year = 2000
),
by_catalog AS (
  SELECT DISTINCT cs_bill_customer_sk AS customer_sk, cs_item_sk AS item_sk
  FROM catalog_sales
  JOIN date_dim ON d_date_sk = cs_sold_date_sk
  WHERE d_year = 2000
)
SELECT
  count_if(in_store.customer_sk IS NOT NULL AND by_catalog.customer_sk IS NULL) AS store_only,
  count_if(in_store.customer_sk IS NULL AND by_catalog.customer_sk IS NOT NULL) AS catalog_only,
  count_if(in_store.customer_sk IS NOT NULL AND by_catalog.customer_sk IS NOT NULL) AS in_both
FROM in_store
FULL JOIN by_catalog
  ON by_catalog.customer_sk = in_store.customer_sk AND by_catalog.item_sk = in_store.item_sk
