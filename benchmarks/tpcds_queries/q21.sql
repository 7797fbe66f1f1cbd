-- Which items have a similar inventory before and after a day, by warehouse?
SELECT
  w_warehouse_name, i_item_id,
  sum(inv_quantity_on_hand) FILTER (WHERE d_date < DATE'2000-03-11') AS before,
  sum(inv_quantity_on_hand) FILTER (WHERE d_date >= DATE'2000-03-11') AS after
FROM inventory
JOIN warehouse ON w_warehouse_sk = inv_warehouse_sk
JOIN item ON i_item_sk = inv_item_sk
JOIN date_dim ON d_date_sk = inv_date_sk
WHERE i_current_price BETWEEN 1 AND 5
  AND d_date BETWEEN DATE'2000-02-10' AND DATE'2000-04-10'
GROUP BY w_warehouse_name, i_item_id
HAVING 2 * before <= 3 * after AND 2 * after <= 3 * before
ORDER BY w_warehouse_name, i_item_id
LIMIT 100
