-- How many sales does a store make in each half hour from half past eight to half past twelve?
SELECT
  t_hour,
  t_minute >= 30 AS is_second_half,
  count(*) AS sales
FROM store_sales
JOIN time_dim ON t_time_sk = ss_sold_time_sk
JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
JOIN store ON s_store_sk = ss_store_sk
WHERE 60 * t_hour + t_minute BETWEEN 510 AND 749
  AND (
    hd_dep_count = 4 AND hd_vehicle_count <= 6
    OR hd_dep_count = 2 AND hd_vehicle_count <= 4
    OR hd_dep_count = 0 AND hd_vehicle_count <= 2
  )
GROUP BY t_hour, t_minute >= 30
ORDER BY t_hour, is_second_half
