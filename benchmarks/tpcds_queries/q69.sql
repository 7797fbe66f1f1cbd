-- Who bought in a store but neither on the web nor by catalog in a quarter, by demographics?
WITH quarter AS (
  SELECT d_date_sk AS date_sk
  FROM date_dim
  WHERE d_year = 2001 AND d_moy BETWEEN 4 AND 6
),
in_store AS (
  SELECT ss_customer_sk AS customer_sk FROM store_sales JOIN quarter ON date_sk = ss_sold_date_sk
),
on_web AS (
  SELECT ws_bill_customer_sk AS customer_sk
  FROM web_sales
  JOIN quarter ON date_sk = ws_sold_date_sk
),
by_catalog AS (
  SELECT cs_ship_customer_sk AS customer_sk
  FROM catalog_sales
  JOIN quarter ON date_sk = cs_sold_date_sk
)
SELECT
  cd_gender,
  cd_marital_status,
  cd_education_status,
  cd_purchase_estimate,
  cd_credit_rating,
  count(*) AS customers
FROM customer
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
LEFT SEMI JOIN in_store ON in_store.customer_sk = c_customer_sk
LEFT ANTI JOIN on_web ON on_web.customer_sk = c_customer_sk
LEFT ANTI JOIN by_catalog ON by_catalog.customer_sk = c_customer_sk
WHERE ca_state IN ('GA', 'IL', 'KY', 'MI', 'MN', 'NC', 'OH', 'TX', 'VA')
GROUP BY
  cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating
ORDER BY
  cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating
LIMIT 100
