-- Which brands of the managers 20 to 40 sold most in stores in December 1999?
SELECT i_brand_id, i_brand, sum(ss_ext_sales_price) AS sales
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE i_manager_id BETWEEN 20 AND 40 AND d_year = 1999 AND d_moy = 12
GROUP BY i_brand_id, i_brand
ORDER BY sales DESC, i_brand_id, i_brand
LIMIT 100
