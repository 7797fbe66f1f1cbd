-- Which foreign-born customers near a store paid much for items of a color that they returned?
WITH returned AS (
  SELECT
    c_customer_id, c_last_name, c_first_name, s_store_name, i_color, i_size, i_units,
    sum(ss_net_paid) AS paid
  FROM store_sales
  JOIN store_returns ON sr_ticket_number = ss_ticket_number AND sr_item_sk = ss_item_sk
  JOIN customer ON c_customer_sk = ss_customer_sk
  JOIN customer_address
    ON ca_address_sk = c_current_addr_sk AND upper(ca_country) <> c_birth_country
  JOIN store ON s_store_sk = ss_store_sk AND left(s_zip, 1) = left(ca_zip, 1)
  JOIN item ON i_item_sk = ss_item_sk
  GROUP BY c_customer_id, c_last_name, c_first_name, s_store_name, i_color, i_size, i_units
)
SELECT c_customer_id, c_last_name, c_first_name, s_store_name, sum(paid) AS paid
FROM returned
WHERE i_color BETWEEN 'm' AND 'q'
GROUP BY c_customer_id, c_last_name, c_first_name, s_store_name
HAVING sum(paid) > (SELECT 0.05 * avg(paid) FROM returned)
ORDER BY c_last_name, c_first_name, s_store_name, c_customer_id
LIMIT 100
