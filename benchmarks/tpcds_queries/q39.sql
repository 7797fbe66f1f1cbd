-- Which items have a variable stock in two successive months, by warehouse?
WITH monthly AS (
  SELECT
    inv_warehouse_sk AS warehouse_sk, inv_item_sk AS item_sk, d_moy,
    avg(inv_quantity_on_hand) AS mean,
    stddev(inv_quantity_on_hand) AS deviation
  FROM inventory
  JOIN date_dim ON d_date_sk = inv_date_sk AND d_year = 2001
  GROUP BY inv_warehouse_sk, inv_item_sk, d_moy
),
variable AS (
  SELECT
    warehouse_sk, item_sk, d_moy,
    round(mean, 2) AS mean,
    round(deviation / nullif(mean, 0), 2) AS variation
  FROM monthly
  WHERE deviation > 0.6 * mean
)
SELECT
  w_warehouse_name, i_item_id, now.item_sk, now.d_moy,
  now.mean AS mean, now.variation AS variation,
  later.mean AS next_mean, later.variation AS next_variation
FROM variable AS now
JOIN variable AS later
  ON later.warehouse_sk = now.warehouse_sk
  AND later.item_sk = now.item_sk
  AND later.d_moy = now.d_moy + 1
JOIN warehouse ON w_warehouse_sk = now.warehouse_sk
JOIN item ON i_item_sk = now.item_sk
ORDER BY w_warehouse_name, i_item_id, now.item_sk, now.d_moy, now.warehouse_sk
LIMIT 100
