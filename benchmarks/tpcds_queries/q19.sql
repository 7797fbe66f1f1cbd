-- Which brands sell most in stores that are not near the customer's home?
SELECT
  i_brand_id, i_brand, i_manufact_id, i_manufact, sum(ss_ext_sales_price) AS sales
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 1999 AND d_moy = 11
JOIN item ON i_item_sk = ss_item_sk AND i_manager_id BETWEEN 1 AND 30
JOIN customer ON c_customer_sk = ss_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN store ON s_store_sk = ss_store_sk AND left(s_zip, 5) <> left(ca_zip, 5)
GROUP BY i_brand_id, i_brand, i_manufact_id, i_manufact
ORDER BY sales DESC, i_brand, i_brand_id, i_manufact_id, i_manufact
LIMIT 100
