-- How many customers bought in all three channels within the same year?
WITH bought AS (
  SELECT 'store' AS channel, ss_customer_sk AS customer_sk, ss_sold_date_sk AS day_sk
  FROM store_sales
  UNION ALL
  SELECT 'catalog', cs_bill_customer_sk, cs_sold_date_sk FROM catalog_sales
  UNION ALL
  SELECT 'web', ws_bill_customer_sk, ws_sold_date_sk FROM web_sales
),
named AS (
  SELECT channel, c_last_name, c_first_name, d_year
  FROM bought
  JOIN customer ON c_customer_sk = customer_sk
  JOIN date_dim ON d_date_sk = day_sk AND d_year BETWEEN 1998 AND 2002
),
everywhere AS (
  SELECT c_last_name, c_first_name, d_year FROM named WHERE channel = 'store'
  INTERSECT
  SELECT c_last_name, c_first_name, d_year FROM named WHERE channel = 'catalog'
  INTERSECT
  SELECT c_last_name, c_first_name, d_year FROM named WHERE channel = 'web'
)
SELECT d_year, count(*) AS customers
FROM everywhere
GROUP BY d_year
ORDER BY d_year
