-- What is each item's share of the revenue of its class, in stores in a month?
SELECT
  i_item_id,
  i_item_desc,
  i_category,
  i_class,
  i_current_price,
  sum(ss_ext_sales_price) AS revenue,
  sum(ss_ext_sales_price) * 100
    / nullif(sum(sum(ss_ext_sales_price)) OVER (PARTITION BY i_class), 0) AS percentage
FROM store_sales
JOIN item ON i_item_sk = ss_item_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
WHERE i_category IN ('Sports', 'Books', 'Home')
  AND d_date BETWEEN DATE'1999-02-22' AND DATE'1999-03-24'
GROUP BY i_item_id, i_item_desc, i_category, i_class, i_current_price
ORDER BY i_category, i_class, i_item_id, i_item_desc, percentage, i_current_price
