-- How many web orders are shipped within 30, 60, 90 and 120 days, by warehouse, type and site?
SELECT
  left(w_warehouse_name, 20) AS warehouse_name,
  sm_type,
  web_name,
  count_if(ws_ship_date_sk - ws_sold_date_sk <= 30) AS within_30_days,
  count_if(ws_ship_date_sk - ws_sold_date_sk BETWEEN 31 AND 60) AS within_60_days,
  count_if(ws_ship_date_sk - ws_sold_date_sk BETWEEN 61 AND 90) AS within_90_days,
  count_if(ws_ship_date_sk - ws_sold_date_sk BETWEEN 91 AND 120) AS within_120_days,
  count_if(ws_ship_date_sk - ws_sold_date_sk > 120) AS later
FROM web_sales
JOIN warehouse ON w_warehouse_sk = ws_warehouse_sk
JOIN ship_mode ON sm_ship_mode_sk = ws_ship_mode_sk
JOIN web_site ON web_site_sk = ws_web_site_sk
JOIN date_dim ON d_date_sk = ws_ship_date_sk
WHERE d_year = 2000
GROUP BY left(w_warehouse_name, 20), sm_type, web_name
ORDER BY warehouse_name, sm_type, web_name
LIMIT 100
