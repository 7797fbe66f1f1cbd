-- How many dependents have customers of stores and of another channel, by state?
WITH period AS (
  SELECT d_date_sk AS day_sk FROM date_dim WHERE d_year = 2002 AND d_qoy < 4
),
remote AS (
  SELECT ws_bill_customer_sk AS customer_sk FROM web_sales JOIN period ON day_sk = ws_sold_date_sk
  UNION
  SELECT cs_ship_customer_sk FROM catalog_sales JOIN period ON day_sk = cs_sold_date_sk
)
SELECT
  ca_state, cd_gender, cd_marital_status,
  count(*) AS customers,
  min(cd_dep_count) AS min_dependents,
  max(cd_dep_count) AS max_dependents,
  round(avg(cd_dep_count), 2) AS mean_dependents,
  min(cd_dep_employed_count) AS min_employed,
  max(cd_dep_employed_count) AS max_employed,
  round(avg(cd_dep_employed_count), 2) AS mean_employed,
  min(cd_dep_college_count) AS min_college,
  max(cd_dep_college_count) AS max_college,
  round(avg(cd_dep_college_count), 2) AS mean_college
FROM customer
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
LEFT SEMI JOIN remote ON remote.customer_sk = c_customer_sk
WHERE c_customer_sk IN (
  SELECT ss_customer_sk FROM store_sales JOIN period ON day_sk = ss_sold_date_sk
)
GROUP BY ca_state, cd_gender, cd_marital_status
ORDER BY ca_state, cd_gender, cd_marital_status
LIMIT 100
