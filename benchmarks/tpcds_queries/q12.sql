-- What is each item's share of the revenue of its class, on the web in a month?
SELECT
  i_item_id, i_category, i_class, sum(ws_ext_sales_price) AS revenue,
  sum(ws_ext_sales_price) * 100
    / nullif(sum(sum(ws_ext_sales_price)) OVER (PARTITION BY i_class), 0) AS share
FROM web_sales
JOIN item ON i_item_sk = ws_item_sk
JOIN date_dim ON d_date_sk = ws_sold_date_sk
WHERE i_category IN ('Sports', 'Books', 'Home')
  AND d_date BETWEEN DATE'1999-02-22' AND DATE'1999-03-24'
GROUP BY i_item_id, i_category, i_class
ORDER BY i_category, i_class, i_item_id, share
LIMIT 100
