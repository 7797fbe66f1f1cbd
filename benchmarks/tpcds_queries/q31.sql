-- In which states do web sales grow faster than store sales over three quarters?
WITH sold AS (
  SELECT
    'store' AS channel, ss_sold_date_sk AS day_sk, ss_addr_sk AS address_sk,
    ss_ext_sales_price AS price
  FROM store_sales
  UNION ALL
  SELECT 'web', ws_sold_date_sk, ws_bill_addr_sk, ws_ext_sales_price FROM web_sales
),
quarterly AS (
  SELECT
    ca_state, d_year, d_qoy,
    sum(price) FILTER (WHERE channel = 'store') AS store,
    sum(price) FILTER (WHERE channel = 'web') AS web
  FROM sold
  JOIN date_dim ON d_date_sk = day_sk
  JOIN customer_address ON ca_address_sk = address_sk
  GROUP BY ca_state, d_year, d_qoy
),
growth AS (
  SELECT
    later.ca_state, later.d_year, later.d_qoy,
    later.web / nullif(now.web, 0) AS web,
    later.store / nullif(now.store, 0) AS store
  FROM quarterly AS now
  JOIN quarterly AS later
    ON later.ca_state = now.ca_state
    AND later.d_year = now.d_year
    AND later.d_qoy = now.d_qoy + 1
)
SELECT
  spring.ca_state, spring.d_year,
  round(spring.web, 2) AS web_spring, round(spring.store, 2) AS store_spring,
  round(summer.web, 2) AS web_summer, round(summer.store, 2) AS store_summer
FROM growth AS spring
JOIN growth AS summer ON summer.ca_state = spring.ca_state AND summer.d_year = spring.d_year
WHERE spring.d_qoy = 2 AND spring.web > spring.store
  AND summer.d_qoy = 3 AND summer.web > summer.store
ORDER BY spring.ca_state, spring.d_year
