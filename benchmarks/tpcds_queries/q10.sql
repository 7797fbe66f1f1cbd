-- Who of some counties bought in a store and also on the web or by catalog, by demographics?
WITH period AS (
  SELECT d_date_sk AS day_sk FROM date_dim WHERE d_year = 2002 AND d_moy BETWEEN 1 AND 8
)
SELECT
  cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating,
  cd_dep_count, cd_dep_employed_count, cd_dep_college_count, count(*) AS customers
FROM customer
JOIN customer_address ON ca_address_sk = c_current_addr_sk AND ca_county < 'N'
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
WHERE EXISTS (
    SELECT 1 FROM store_sales JOIN period ON day_sk = ss_sold_date_sk
    WHERE ss_customer_sk = c_customer_sk
  )
  AND (
    EXISTS (
      SELECT 1 FROM web_sales JOIN period ON day_sk = ws_sold_date_sk
      WHERE ws_bill_customer_sk = c_customer_sk
    )
    OR EXISTS (
      SELECT 1 FROM catalog_sales JOIN period ON day_sk = cs_sold_date_sk
      WHERE cs_ship_customer_sk = c_customer_sk
    )
  )
GROUP BY
  cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating,
  cd_dep_count, cd_dep_employed_count, cd_dep_college_count
ORDER BY
  cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating,
  cd_dep_count, cd_dep_employed_count, cd_dep_college_count
LIMIT 100
