-- Who returned more on the web than a fifth above the average customer of the same state?
WITH returned AS (
  SELECT
    wr_returning_customer_sk AS customer_sk, ca_state AS state,
    sum(wr_return_amt) AS amount,
    avg(sum(wr_return_amt)) OVER (PARTITION BY ca_state) AS mean
  FROM web_returns
  JOIN date_dim ON d_date_sk = wr_returned_date_sk AND d_year BETWEEN 2000 AND 2002
  JOIN customer_address ON ca_address_sk = wr_returning_addr_sk
  GROUP BY wr_returning_customer_sk, ca_state
)
SELECT
  c_customer_id, c_salutation, c_first_name, c_last_name, c_preferred_cust_flag,
  c_birth_day, c_birth_month, c_birth_year, c_birth_country, c_login, c_email_address,
  state, amount
FROM returned
JOIN customer ON c_customer_sk = customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
WHERE amount > 1.2 * mean
  AND ca_state IN ('CA', 'FL', 'GA', 'IL', 'IN', 'KS', 'KY', 'MO', 'NC', 'NE', 'OH', 'TX', 'VA')
ORDER BY c_customer_id, state, amount
LIMIT 100
