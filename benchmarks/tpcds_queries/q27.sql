-- What do divorced women buy in stores, by item and state?
SELECT
  i_item_id, s_state, grouping(s_state) AS all_states,
  round(avg(ss_quantity), 2) AS quantity,
  avg(ss_list_price) AS list_price,
  avg(ss_coupon_amt) AS coupons,
  avg(ss_sales_price) AS price
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2002
JOIN customer_demographics
  ON cd_demo_sk = ss_cdemo_sk
  AND cd_gender = 'F' AND cd_marital_status = 'D' AND cd_education_status LIKE '%Degree'
JOIN store ON s_store_sk = ss_store_sk
JOIN item ON i_item_sk = ss_item_sk
GROUP BY ROLLUP (i_item_id, s_state)
ORDER BY i_item_id, s_state, grouping_id()
LIMIT 100
