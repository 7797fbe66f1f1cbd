-- How many units were sold in a store, returned there, and ordered again by catalog?
WITH returned AS (
  SELECT
    ss_item_sk AS item_sk, ss_customer_sk AS customer_sk, ss_store_sk AS store_sk,
    ss_quantity, sr_return_quantity
  FROM store_sales
  JOIN store_returns
    ON sr_ticket_number = ss_ticket_number
    AND sr_item_sk = ss_item_sk
    AND sr_customer_sk = ss_customer_sk
  JOIN date_dim AS bought ON bought.d_date_sk = ss_sold_date_sk AND bought.d_moy BETWEEN 2 AND 11
  JOIN date_dim AS back ON back.d_date_sk = sr_returned_date_sk AND back.d_moy BETWEEN 3 AND 12
),
ordered AS (
  SELECT cs_item_sk AS item_sk, cs_bill_customer_sk AS customer_sk, cs_quantity
  FROM catalog_sales
  JOIN date_dim ON d_date_sk = cs_sold_date_sk AND d_year BETWEEN 1998 AND 2002
)
SELECT
  i_item_id, i_item_desc, s_store_id, s_store_name,
  sum(ss_quantity) AS sold, sum(sr_return_quantity) AS returned, sum(cs_quantity) AS ordered
FROM returned
JOIN ordered USING (item_sk, customer_sk)
JOIN item ON i_item_sk = item_sk
JOIN store ON s_store_sk = store_sk
GROUP BY i_item_id, i_item_desc, s_store_id, s_store_name
ORDER BY i_item_id, i_item_desc, s_store_id, s_store_name
LIMIT 100
