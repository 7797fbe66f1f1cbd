-- On which days had an item sold more on the web than in stores since January 2000?
WITH web AS (
  SELECT
    ws_item_sk AS item_sk,
    d_date AS day,
    sum(sum(ws_sales_price)) OVER (PARTITION BY ws_item_sk ORDER BY d_date) AS total
  FROM web_sales
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  WHERE d_year = 2000
  GROUP BY ws_item_sk, d_date
),
shop AS (
  SELECT
    ss_item_sk AS item_sk,
    d_date AS day,
    sum(sum(ss_sales_price)) OVER (PARTITION BY ss_item_sk ORDER BY d_date) AS total
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year = 2000
  GROUP BY ss_item_sk, d_date
),
running AS (
  SELECT
    item_sk,
    day,
    max(web.total) OVER (PARTITION BY item_sk ORDER BY day) AS web_total,
    max(shop.total) OVER (PARTITION BY item_sk ORDER BY day) AS shop_total
  FROM web
  FULL JOIN shop USING (item_sk, day)
)
SELECT item_sk, day, web_total, shop_total
FROM running
WHERE web_total > shop_total
ORDER BY item_sk, day
LIMIT 100
