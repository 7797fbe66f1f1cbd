-- Which items of some colors sell least in all channels, to customers of one time zone?
WITH colored AS (
  SELECT DISTINCT i_item_id
  FROM item
  WHERE i_color IN (
    'black', 'blue', 'brown', 'cream', 'green', 'grey', 'orange', 'pink', 'purple', 'red', 'white'
  )
),
in_store AS (
  SELECT i_item_id, sum(ss_ext_sales_price) AS sales
  FROM store_sales
  JOIN item ON i_item_sk = ss_item_sk
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN customer_address ON ca_address_sk = ss_addr_sk
  WHERE d_year = 2001 AND d_moy = 2 AND ca_gmt_offset = -5
    AND i_item_id IN (SELECT i_item_id FROM colored)
  GROUP BY i_item_id
),
by_catalog AS (
  SELECT i_item_id, sum(cs_ext_sales_price) AS sales
  FROM catalog_sales
  JOIN item ON i_item_sk = cs_item_sk
  JOIN date_dim ON d_date_sk = cs_sold_date_sk
  JOIN customer_address ON ca_address_sk = cs_bill_addr_sk
  WHERE d_year = 2001 AND d_moy = 2 AND ca_gmt_offset = -5
    AND i_item_id IN (SELECT i_item_id FROM colored)
  GROUP BY i_item_id
),
on_web AS (
  SELECT i_item_id, sum(ws_ext_sales_price) AS sales
  FROM web_sales
  JOIN item ON i_item_sk = ws_item_sk
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  JOIN customer_address ON ca_address_sk = ws_bill_addr_sk
  WHERE d_year = 2001 AND d_moy = 2 AND ca_gmt_offset = -5
    AND i_item_id IN (SELECT i_item_id FROM colored)
  GROUP BY i_item_id
)
SELECT i_item_id, sum(sales) AS total
FROM (
  SELECT * FROM in_store
  UNION ALL
  SELECT * FROM by_catalog
  UNION ALL
  SELECT * FROM on_web
)
GROUP BY i_item_id
ORDER BY total, i_item_id
LIMIT 100
