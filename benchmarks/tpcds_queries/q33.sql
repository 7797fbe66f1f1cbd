-- What do manufacturers of books sell in a month across all channels?
WITH sold AS (
  SELECT
    ss_item_sk AS item_sk, ss_sold_date_sk AS day_sk, ss_addr_sk AS address_sk,
    ss_ext_sales_price AS price
  FROM store_sales
  UNION ALL
  SELECT cs_item_sk, cs_sold_date_sk, cs_bill_addr_sk, cs_ext_sales_price FROM catalog_sales
  UNION ALL
  SELECT ws_item_sk, ws_sold_date_sk, ws_bill_addr_sk, ws_ext_sales_price FROM web_sales
)
SELECT i_manufact_id, sum(price) AS sales
FROM sold
JOIN item ON i_item_sk = item_sk
JOIN date_dim ON d_date_sk = day_sk AND d_year = 1999 AND d_moy = 3
JOIN customer_address ON ca_address_sk = address_sk AND ca_gmt_offset IN (-5, -6)
WHERE i_manufact_id IN (SELECT i_manufact_id FROM item WHERE i_category = 'Books')
GROUP BY i_manufact_id
ORDER BY sales, i_manufact_id
LIMIT 100
