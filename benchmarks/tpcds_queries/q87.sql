-- How many times did a person buy in a store, but not by catalog or on the web on that day?
SELECT count(*) AS visits
FROM (
  SELECT c_last_name, c_first_name, d_date
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN customer ON c_customer_sk = ss_customer_sk
  WHERE d_year = 2000
  EXCEPT
  SELECT c_last_name, c_first_name, d_date
  FROM catalog_sales
  JOIN date_dim ON d_date_sk = cs_sold_date_sk
  JOIN customer ON c_customer_sk = cs_bill_customer_sk
  WHERE d_year = 2000
  EXCEPT
  SELECT c_last_name, c_first_name, d_date
  FROM web_sales
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  JOIN customer ON c_customer_sk = ws_bill_customer_sk
  WHERE d_year = 2000
)
