-- How much does each item of music sell in September, to customers of one time zone?
WITH sold AS (
  SELECT
    ss_item_sk AS item_sk,
    ss_sold_date_sk AS date_sk,
    ss_addr_sk AS address_sk,
    ss_ext_sales_price AS price
  FROM store_sales
  UNION ALL
  SELECT cs_item_sk, cs_sold_date_sk, cs_bill_addr_sk, cs_ext_sales_price
  FROM catalog_sales
  UNION ALL
  SELECT ws_item_sk, ws_sold_date_sk, ws_bill_addr_sk, ws_ext_sales_price
  FROM web_sales
)
SELECT i_item_id, sum(price) AS total
FROM sold
JOIN item ON i_item_sk = item_sk
JOIN date_dim ON d_date_sk = date_sk
JOIN customer_address ON ca_address_sk = address_sk
WHERE i_item_id IN (SELECT music.i_item_id FROM item AS music WHERE music.i_category = 'Music')
  AND d_year BETWEEN 1998 AND 2000 AND d_moy = 9
  AND ca_gmt_offset = -5
GROUP BY i_item_id
ORDER BY i_item_id, total
LIMIT 100
