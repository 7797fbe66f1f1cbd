-- Which categories of some managers sell most in a November?
SELECT d_year, i_category_id, i_category, sum(ss_ext_sales_price) AS sales
FROM store_sales
JOIN item ON i_item_sk = ss_item_sk AND i_manager_id BETWEEN 1 AND 20
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_year = 2000 AND d_moy = 11
GROUP BY d_year, i_category_id, i_category
ORDER BY sales DESC, d_year, i_category_id, i_category
LIMIT 100
