-- Which customers spend a growing amount on the web compared with stores?
WITH spent AS (
  SELECT
    'store' AS channel, ss_customer_sk AS customer_sk, d_year <= 2000 AS early,
    sum(ss_ext_list_price - ss_ext_discount_amt) AS total
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  GROUP BY ss_customer_sk, d_year <= 2000
  UNION ALL
  SELECT
    'web', ws_bill_customer_sk, d_year <= 2000, sum(ws_ext_list_price - ws_ext_discount_amt)
  FROM web_sales
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  GROUP BY ws_bill_customer_sk, d_year <= 2000
)
SELECT c_customer_id, c_first_name, c_last_name, c_email_address
FROM customer
JOIN spent AS s1 ON s1.customer_sk = c_customer_sk AND s1.channel = 'store' AND s1.early
JOIN spent AS s2 ON s2.customer_sk = c_customer_sk AND s2.channel = 'store' AND NOT s2.early
JOIN spent AS w1 ON w1.customer_sk = c_customer_sk AND w1.channel = 'web' AND w1.early
JOIN spent AS w2 ON w2.customer_sk = c_customer_sk AND w2.channel = 'web' AND NOT w2.early
WHERE w2.total / nullif(w1.total, 0) > s2.total / nullif(s1.total, 0)
ORDER BY c_customer_id
LIMIT 100
