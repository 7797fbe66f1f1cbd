-- Which states have many buyers of items that cost more than others of their category?
SELECT ca_state, count(*) AS buyers
FROM store_sales
JOIN customer ON c_customer_sk = ss_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE d_month_seq = (SELECT max(d_month_seq) FROM date_dim WHERE d_year = 2001 AND d_moy = 12)
  AND i_current_price > (
    SELECT 1.2 * avg(i_current_price) FROM item AS other WHERE other.i_category = item.i_category
  )
GROUP BY ca_state
HAVING count(*) >= 5
ORDER BY buyers, ca_state
LIMIT 100
