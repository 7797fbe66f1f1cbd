-- How many sales do large families make in stores in half an hour of the evening?
SELECT count(*) AS sales
FROM store_sales
JOIN time_dim ON t_time_sk = ss_sold_time_sk
JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
JOIN store ON s_store_sk = ss_store_sk
WHERE t_hour = 20 AND t_minute >= 30 AND hd_dep_count >= 5 AND s_store_name IS NOT NULL
