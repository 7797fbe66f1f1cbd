-- Which percentage of the jewelry sold in one time zone in a year was promoted?
SELECT
  sum(ss_ext_sales_price) FILTER (WHERE p_promo_sk IS NOT NULL) AS promoted,
  sum(ss_ext_sales_price) AS total,
  100 * sum(ss_ext_sales_price) FILTER (WHERE p_promo_sk IS NOT NULL)
    / nullif(sum(ss_ext_sales_price), 0) AS percentage
FROM store_sales
JOIN store ON s_store_sk = ss_store_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN customer ON c_customer_sk = ss_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN item ON i_item_sk = ss_item_sk
LEFT JOIN promotion
  ON p_promo_sk = ss_promo_sk
  AND (p_channel_dmail = 'Y' OR p_channel_email = 'Y' OR p_channel_tv = 'Y')
WHERE i_category = 'Jewelry' AND d_year = 2000 AND s_gmt_offset = -5 AND ca_gmt_offset = -5
