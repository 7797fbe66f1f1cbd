-- How many units did some groups of customers buy in stores, for ranges of price and profit?
SELECT count(*) AS sales, sum(ss_quantity) AS units
FROM store_sales
JOIN store ON s_store_sk = ss_store_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2000
JOIN customer_demographics
  ON cd_demo_sk = ss_cdemo_sk
  AND (
    (cd_marital_status = 'M' AND cd_education_status = '4 yr Degree' AND ss_sales_price >= 50)
    OR (cd_marital_status = 'D' AND cd_education_status = '2 yr Degree' AND ss_sales_price < 100)
    OR (cd_marital_status = 'S' AND cd_education_status = 'College' AND ss_sales_price < 200)
  )
JOIN customer_address
  ON ca_address_sk = ss_addr_sk
  AND ca_country = 'United States'
  AND (
    (ca_state IN ('CO', 'GA', 'IL', 'OH', 'TX') AND ss_net_profit BETWEEN -2000 AND 2000)
    OR (ca_state IN ('KY', 'MN', 'OR', 'VA') AND ss_net_profit BETWEEN -3000 AND 3000)
    OR (ca_state IN ('CA', 'KS', 'MS', 'NE') AND ss_net_profit BETWEEN -9000 AND 25000)
  )
