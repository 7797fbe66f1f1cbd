-- What are the catalog sales of a quarter by zip code, for some areas or high prices?
SELECT ca_zip, sum(cs_sales_price) AS sales
FROM catalog_sales
JOIN date_dim ON d_date_sk = cs_sold_date_sk AND d_year = 2001 AND d_qoy = 2
JOIN customer ON c_customer_sk = cs_bill_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
WHERE left(ca_zip, 2) IN ('31', '60', '66', '85')
  OR ca_state IN ('CA', 'GA', 'WA')
  OR cs_sales_price > 200
GROUP BY ca_zip
ORDER BY ca_zip
LIMIT 100
