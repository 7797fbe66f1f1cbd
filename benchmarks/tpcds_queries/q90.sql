-- How many web sales do large families make in the morning for each sale in the evening?
SELECT
  count_if(t_hour BETWEEN 8 AND 11) AS morning,
  count_if(t_hour BETWEEN 18 AND 21) AS evening,
  round(
    count_if(t_hour BETWEEN 8 AND 11) / nullif(count_if(t_hour BETWEEN 18 AND 21), 0), 2
  ) AS ratio
FROM web_sales
JOIN household_demographics ON hd_demo_sk = ws_ship_hdemo_sk
JOIN time_dim ON t_time_sk = ws_sold_time_sk
JOIN web_page ON wp_web_page_sk = ws_web_page_sk
WHERE hd_dep_count >= 5 AND wp_char_count BETWEEN 1000 AND 7500
