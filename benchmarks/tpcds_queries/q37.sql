-- Which items of a price range are in stock in small quantities and sold by catalog?
SELECT i_item_id, i_item_desc, i_current_price
FROM item
WHERE i_current_price BETWEEN 1 AND 60
  AND i_manufact_id BETWEEN 100 AND 800
  AND EXISTS (
    SELECT 1
    FROM inventory
    JOIN date_dim ON d_date_sk = inv_date_sk
    WHERE inv_item_sk = i_item_sk
      AND inv_quantity_on_hand BETWEEN 100 AND 500
      AND d_date BETWEEN DATE'2000-02-01' AND DATE'2000-04-01'
  )
  AND EXISTS (SELECT 1 FROM catalog_sales WHERE cs_item_sk = i_item_sk)
GROUP BY i_item_id, i_item_desc, i_current_price
ORDER BY i_item_id, i_item_desc, i_current_price
LIMIT 100
