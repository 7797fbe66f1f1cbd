-- Which brands of some manufacturers sold most in each November?
SELECT d_year, i_brand_id, i_brand, sum(ss_ext_sales_price) AS sales
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk AND d_moy = 11
JOIN item ON i_item_sk = ss_item_sk AND i_manufact_id BETWEEN 100 AND 400
GROUP BY d_year, i_brand_id, i_brand
ORDER BY d_year, sales DESC, i_brand_id, i_brand
LIMIT 100
