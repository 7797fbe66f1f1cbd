-- Who returned more by catalog than a fifth above the average customer of the same state?
WITH returned AS (
  SELECT
    cr_returning_customer_sk AS customer_sk,
    ca_state AS state,
    sum(cr_return_amt_inc_tax) AS amount
  FROM catalog_returns
  JOIN date_dim ON d_date_sk = cr_returned_date_sk
  JOIN customer_address ON ca_address_sk = cr_returning_addr_sk
  WHERE d_year = 2000
  GROUP BY cr_returning_customer_sk, ca_state
)
SELECT
  c_customer_id,
  c_salutation,
  c_first_name,
  c_last_name,
  ca_street_number,
  ca_street_name,
  ca_street_type,
  ca_suite_number,
  ca_city,
  ca_county,
  ca_state,
  ca_zip,
  ca_country,
  ca_gmt_offset,
  ca_location_type,
  amount,
  state AS returned_from
FROM returned
JOIN customer ON c_customer_sk = customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
WHERE ca_state IN ('GA', 'IL', 'IN', 'KY', 'MO', 'NC', 'OH', 'TN', 'TX', 'VA')
  AND amount > (
    SELECT 1.2 * avg(other.amount) FROM returned AS other WHERE other.state = returned.state
  )
ORDER BY c_customer_id, returned_from, amount
LIMIT 100
