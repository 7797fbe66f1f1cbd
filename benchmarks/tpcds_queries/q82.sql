-- Which items of some manufacturers and prices are in stock and are sold in stores?
SELECT i_item_id, i_item_desc, i_current_price
FROM item
WHERE i_current_price BETWEEN 1 AND 30
  AND i_manufact_id BETWEEN 1 AND 500
  AND EXISTS (
    SELECT 1
    FROM inventory
    JOIN date_dim ON d_date_sk = inv_date_sk
    WHERE inv_item_sk = i_item_sk
      AND inv_quantity_on_hand BETWEEN 100 AND 500
      AND d_date BETWEEN DATE'2000-05-25' AND DATE'2000-07-24'
  )
  AND EXISTS (SELECT 1 FROM store_sales WHERE ss_item_sk = i_item_sk)
GROUP BY i_item_id, i_item_desc, i_current_price
ORDER BY i_item_id, i_item_desc, i_current_price
LIMIT 100
