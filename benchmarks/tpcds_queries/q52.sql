-- Which brands of some managers sold most in stores in November 2000?
SELECT d_year, i_brand_id, i_brand, sum(ss_ext_sales_price) AS sales
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE i_manager_id BETWEEN 1 AND 20 AND d_year = 2000 AND d_moy = 11
GROUP BY d_year, i_brand_id, i_brand
ORDER BY d_year, sales DESC, i_brand_id, i_brand
LIMIT 100
