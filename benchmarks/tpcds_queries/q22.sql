-- Which items have the smallest stock, by product, brand, class and category?
SELECT
  i_product_name, i_brand, i_class, i_category, round(avg(inv_quantity_on_hand), 2) AS stock
FROM inventory
JOIN date_dim ON d_date_sk = inv_date_sk
JOIN item ON i_item_sk = inv_item_sk
WHERE d_month_seq BETWEEN 1200 AND 1211
GROUP BY ROLLUP (i_product_name, i_brand, i_class, i_category)
ORDER BY stock, i_product_name, i_brand, i_class, i_category, grouping_id()
LIMIT 100
