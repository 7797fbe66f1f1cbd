-- What does each warehouse ship on the web and by catalog in each month, by some carriers?
WITH shipped AS (
  SELECT
    ws_warehouse_sk AS warehouse_sk,
    ws_sold_date_sk AS date_sk,
    ws_sold_time_sk AS time_sk,
    ws_ship_mode_sk AS mode_sk,
    ws_ext_sales_price AS price,
    ws_net_paid AS paid
  FROM web_sales
  UNION ALL
  SELECT
    cs_warehouse_sk, cs_sold_date_sk, cs_sold_time_sk, cs_ship_mode_sk,
    cs_ext_sales_price, cs_net_paid
  FROM catalog_sales
)
SELECT *
FROM (
  SELECT
    w_warehouse_name,
    w_warehouse_sq_ft,
    w_city,
    w_county,
    w_state,
    w_country,
    d_year,
    d_moy,
    price,
    price / nullif(w_warehouse_sq_ft, 0) AS price_per_foot,
    paid
  FROM shipped
  JOIN warehouse ON w_warehouse_sk = warehouse_sk
  JOIN date_dim ON d_date_sk = date_sk
  JOIN time_dim ON t_time_sk = time_sk
  JOIN ship_mode ON sm_ship_mode_sk = mode_sk
  WHERE d_year BETWEEN 2000 AND 2001
    AND t_hour BETWEEN 8 AND 16
    AND sm_carrier IN ('DHL', 'UPS', 'FEDEX', 'AIRBORNE', 'BARIAN')
)
PIVOT (
  sum(price) AS sales,
  sum(price_per_foot) AS sales_per_foot,
  sum(paid) AS paid
  FOR d_moy IN (
    1 AS january, 2 AS february, 3 AS march, 4 AS april, 5 AS may, 6 AS june, 7 AS july,
    8 AS august, 9 AS september, 10 AS october, 11 AS november, 12 AS december
  )
)
ORDER BY w_warehouse_name, d_year, w_city, w_warehouse_sq_ft
LIMIT 100
