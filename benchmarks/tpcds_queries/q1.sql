-- Who returned more to a store than a fifth above the store's average customer?
WITH returned AS (
  SELECT sr_customer_sk, sr_store_sk, sum(sr_return_amt) AS amount
  FROM store_returns
  JOIN date_dim ON d_date_sk = sr_returned_date_sk
  WHERE d_year = 2000
  GROUP BY sr_customer_sk, sr_store_sk
)
SELECT c_customer_id, amount
FROM returned
JOIN store ON s_store_sk = sr_store_sk
JOIN customer ON c_customer_sk = sr_customer_sk
WHERE amount > (
  SELECT 1.2 * avg(amount) FROM returned AS other WHERE other.sr_store_sk = returned.sr_store_sk
)
ORDER BY c_customer_id, amount
LIMIT 100
