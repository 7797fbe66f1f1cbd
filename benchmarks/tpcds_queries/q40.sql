-- How do catalog sales minus refunds change around a day, by state of the warehouse and item?
WITH sold AS (
  SELECT
    w_state, i_item_id, d_date, cs_sales_price - coalesce(cr_refunded_cash, 0) AS amount
  FROM catalog_sales
  LEFT JOIN catalog_returns ON cr_order_number = cs_order_number AND cr_item_sk = cs_item_sk
  JOIN warehouse ON w_warehouse_sk = cs_warehouse_sk
  JOIN item ON i_item_sk = cs_item_sk AND i_current_price BETWEEN 0.5 AND 5
  JOIN date_dim
    ON d_date_sk = cs_sold_date_sk AND d_date BETWEEN DATE'2000-02-10' AND DATE'2000-04-10'
)
SELECT
  w_state, i_item_id,
  coalesce(sum(amount) FILTER (WHERE d_date < DATE'2000-03-11'), 0) AS before,
  coalesce(sum(amount) FILTER (WHERE d_date >= DATE'2000-03-11'), 0) AS after
FROM sold
GROUP BY w_state, i_item_id
ORDER BY w_state, i_item_id
LIMIT 100
