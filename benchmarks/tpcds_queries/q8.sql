-- What do stores earn in areas with many preferred customers?
WITH area AS (
  SELECT left(ca_zip, 2) AS prefix
  FROM customer_address
  WHERE left(ca_zip, 2) BETWEEN '20' AND '79'
  INTERSECT
  SELECT left(ca_zip, 2)
  FROM customer
  JOIN customer_address ON ca_address_sk = c_current_addr_sk
  WHERE c_preferred_cust_flag = 'Y'
  GROUP BY left(ca_zip, 2)
  HAVING count(*) > 1
)
SELECT s_store_name, sum(ss_net_profit) AS profit
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 1998 AND d_qoy = 2
JOIN store ON s_store_sk = ss_store_sk
JOIN area ON prefix = left(s_zip, 2)
GROUP BY s_store_name
ORDER BY s_store_name
LIMIT 100
