-- How do a store's weekly sales change within a year, by day of the week?
WITH weekly AS (
  SELECT
    ss_store_sk,
    d_week_seq,
    sum(ss_sales_price) FILTER (WHERE d_day_name = 'Sunday') AS sunday,
    sum(ss_sales_price) FILTER (WHERE d_day_name = 'Monday') AS monday,
    sum(ss_sales_price) FILTER (WHERE d_day_name = 'Tuesday') AS tuesday,
    sum(ss_sales_price) FILTER (WHERE d_day_name = 'Wednesday') AS wednesday,
    sum(ss_sales_price) FILTER (WHERE d_day_name = 'Thursday') AS thursday,
    sum(ss_sales_price) FILTER (WHERE d_day_name = 'Friday') AS friday,
    sum(ss_sales_price) FILTER (WHERE d_day_name = 'Saturday') AS saturday
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year BETWEEN 2000 AND 2002
  GROUP BY ss_store_sk, d_week_seq
)
SELECT
  s_store_name,
  s_store_id,
  now.d_week_seq,
  round(now.sunday / nullif(later.sunday, 0), 2) AS sunday,
  round(now.monday / nullif(later.monday, 0), 2) AS monday,
  round(now.tuesday / nullif(later.tuesday, 0), 2) AS tuesday,
  round(now.wednesday / nullif(later.wednesday, 0), 2) AS wednesday,
  round(now.thursday / nullif(later.thursday, 0), 2) AS thursday,
  round(now.friday / nullif(later.friday, 0), 2) AS friday,
  round(now.saturday / nullif(later.saturday, 0), 2) AS saturday
FROM weekly AS now
JOIN weekly AS later
  ON later.ss_store_sk = now.ss_store_sk AND later.d_week_seq = now.d_week_seq + 52
JOIN store ON s_store_sk = now.ss_store_sk
ORDER BY s_store_name, s_store_id, now.d_week_seq, now.ss_store_sk
LIMIT 100
