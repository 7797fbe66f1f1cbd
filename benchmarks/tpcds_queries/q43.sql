-- What does each store sell on each day of the week?
SELECT
  s_store_name, s_store_id,
  sum(ss_sales_price) FILTER (WHERE d_day_name = 'Sunday') AS sunday,
  sum(ss_sales_price) FILTER (WHERE d_day_name = 'Monday') AS monday,
  sum(ss_sales_price) FILTER (WHERE d_day_name = 'Tuesday') AS tuesday,
  sum(ss_sales_price) FILTER (WHERE d_day_name = 'Wednesday') AS wednesday,
  sum(ss_sales_price) FILTER (WHERE d_day_name = 'Thursday') AS thursday,
  sum(ss_sales_price) FILTER (WHERE d_day_name = 'Friday') AS friday,
  sum(ss_sales_price) FILTER (WHERE d_day_name = 'Saturday') AS saturday
FROM store_sales
JOIN store ON s_store_sk = ss_store_sk AND s_gmt_offset IN (-5, -6)
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2000
GROUP BY s_store_name, s_store_id
ORDER BY s_store_name, s_store_id
LIMIT 100
