-- What do married women with a primary education order by catalog without a promotion?
SELECT
  i_item_id,
  round(avg(cs_quantity), 2) AS quantity,
  avg(cs_list_price) AS list_price,
  avg(cs_coupon_amt) AS coupons,
  avg(cs_sales_price) AS price
FROM catalog_sales
JOIN item ON i_item_sk = cs_item_sk
JOIN date_dim ON d_date_sk = cs_sold_date_sk AND d_year BETWEEN 2000 AND 2001
LEFT SEMI JOIN promotion
  ON p_promo_sk = cs_promo_sk AND (p_channel_email = 'N' OR p_channel_event = 'N')
LEFT SEMI JOIN customer_demographics
  ON cd_demo_sk = cs_bill_cdemo_sk
  AND cd_gender = 'F' AND cd_marital_status = 'M' AND cd_education_status = 'Primary'
GROUP BY i_item_id
ORDER BY i_item_id
LIMIT 100
