-- How do weekly sales on the web and by catalog change within a year, by day?
WITH sold AS (
  SELECT ws_sold_date_sk AS day_sk, ws_ext_sales_price AS price FROM web_sales
  UNION ALL
  SELECT cs_sold_date_sk, cs_ext_sales_price FROM catalog_sales
),
daily AS (
  SELECT d_week_seq, d_day_name, price
  FROM sold
  JOIN date_dim ON d_date_sk = day_sk
),
weekly AS (
  SELECT *
  FROM daily
  PIVOT (
    sum(price) FOR d_day_name IN (
      'Sunday' AS sun, 'Monday' AS mon, 'Tuesday' AS tue, 'Wednesday' AS wed, 'Thursday' AS thu,
      'Friday' AS fri, 'Saturday' AS sat
    )
  )
)
SELECT
  now.d_week_seq AS week,
  round(now.sun / nullif(later.sun, 0), 2) AS sunday,
  round(now.mon / nullif(later.mon, 0), 2) AS monday,
  round(now.tue / nullif(later.tue, 0), 2) AS tuesday,
  round(now.wed / nullif(later.wed, 0), 2) AS wednesday,
  round(now.thu / nullif(later.thu, 0), 2) AS thursday,
  round(now.fri / nullif(later.fri, 0), 2) AS friday,
  round(now.sat / nullif(later.sat, 0), 2) AS saturday
FROM weekly AS now
JOIN weekly AS later ON later.d_week_seq = now.d_week_seq + 52
LEFT SEMI JOIN date_dim ON date_dim.d_week_seq = now.d_week_seq AND date_dim.d_year = 2001
ORDER BY week
