-- What do catalog customers buy, by item, country, state and county?
SELECT
  i_item_id, ca_country, ca_state, ca_county,
  round(avg(cs_quantity), 2) AS quantity,
  avg(cs_list_price) AS list_price,
  avg(cs_coupon_amt) AS coupons,
  avg(cs_sales_price) AS price,
  avg(cs_net_profit) AS profit,
  round(avg(c_birth_year), 2) AS birth_year,
  round(avg(own.cd_dep_count), 2) AS dependents
FROM catalog_sales
JOIN customer_demographics AS billed ON billed.cd_demo_sk = cs_bill_cdemo_sk
JOIN customer ON c_customer_sk = cs_bill_customer_sk
JOIN customer_demographics AS own ON own.cd_demo_sk = c_current_cdemo_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN date_dim ON d_date_sk = cs_sold_date_sk
JOIN item ON i_item_sk = cs_item_sk
WHERE billed.cd_gender = 'F' AND billed.cd_education_status = 'Unknown'
  AND c_birth_month IN (1, 2, 5, 6, 8, 9, 12)
  AND d_year = 1998
GROUP BY ROLLUP (i_item_id, ca_country, ca_state, ca_county)
ORDER BY ca_country, ca_state, ca_county, i_item_id, grouping_id()
LIMIT 100
