-- What are the web sales of a quarter by zip code and city, for some areas or items?
SELECT ca_zip, ca_city, sum(ws_sales_price) AS sales
FROM web_sales
JOIN customer ON c_customer_sk = ws_bill_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN item ON i_item_sk = ws_item_sk
JOIN date_dim ON d_date_sk = ws_sold_date_sk AND d_year = 2001 AND d_qoy = 2
WHERE left(ca_zip, 1) IN ('3', '6', '8')
  OR i_item_id IN (SELECT i_item_id FROM item WHERE i_item_sk BETWEEN 2 AND 29)
GROUP BY ca_zip, ca_city
ORDER BY ca_zip, ca_city
LIMIT 100
