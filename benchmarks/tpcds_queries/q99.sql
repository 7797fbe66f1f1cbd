-- How many catalog orders are shipped within 30, 60, 90 and 120 days, by call center?
SELECT
  left(w_warehouse_name, 20) AS warehouse_name,
  sm_type,
  cc_name,
  count_if(cs_ship_date_sk - cs_sold_date_sk <= 30) AS within_30_days,
  count_if(cs_ship_date_sk - cs_sold_date_sk BETWEEN 31 AND 60) AS within_60_days,
  count_if(cs_ship_date_sk - cs_sold_date_sk BETWEEN 61 AND 90) AS within_90_days,
  count_if(cs_ship_date_sk - cs_sold_date_sk BETWEEN 91 AND 120) AS within_120_days,
  count_if(cs_ship_date_sk - cs_sold_date_sk > 120) AS later
FROM catalog_sales
JOIN warehouse ON w_warehouse_sk = cs_warehouse_sk
JOIN ship_mode ON sm_ship_mode_sk = cs_ship_mode_sk
JOIN call_center ON cc_call_center_sk = cs_call_center_sk
JOIN date_dim ON d_date_sk = cs_ship_date_sk
WHERE d_year = 2000
GROUP BY left(w_warehouse_name, 20), sm_type, cc_name
ORDER BY warehouse_name, sm_type, cc_name
LIMIT 100
