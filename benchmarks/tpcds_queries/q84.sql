-- Which customers of some cities and incomes returned something to a store?
SELECT
  c_customer_id,
  concat_ws(', ', c_last_name, c_first_name) AS name
FROM customer
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
JOIN household_demographics ON hd_demo_sk = c_current_hdemo_sk
JOIN income_band ON ib_income_band_sk = hd_income_band_sk
LEFT SEMI JOIN store_returns ON sr_customer_sk = c_customer_sk
WHERE ca_city IN (
    'Centerville', 'Edgewood', 'Fairview', 'Five Points', 'Liberty', 'Midway', 'Mount Zion',
    'Oak Grove', 'Oakland', 'Pleasant Grove', 'Pleasant Hill', 'Salem', 'Union'
  )
  AND ib_lower_bound >= 30000
  AND ib_upper_bound <= 90000
ORDER BY c_customer_id
LIMIT 100
