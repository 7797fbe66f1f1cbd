-- How large are the catalog discounts that exceed an item's average discount by a third?
WITH discounted AS (
  SELECT cs_item_sk AS item_sk, cs_ext_discount_amt AS discount
  FROM catalog_sales
  JOIN date_dim ON d_date_sk = cs_sold_date_sk
  WHERE d_date BETWEEN DATE'2000-01-27' AND DATE'2000-04-26'
)
SELECT count(*) AS sales, sum(discount) AS excess
FROM discounted
JOIN item ON i_item_sk = item_sk AND i_manufact_id BETWEEN 100 AND 700
WHERE discount > (
  SELECT 1.3 * avg(discount) FROM discounted AS other WHERE other.item_sk = discounted.item_sk
)
