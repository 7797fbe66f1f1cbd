-- Which customers with vehicles buy few items at once in a store at the start of a month?
WITH ticket AS (
  SELECT ss_ticket_number, ss_customer_sk, count(*) AS items
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
  WHERE d_dom BETWEEN 1 AND 5
    AND d_year BETWEEN 1999 AND 2001
    AND hd_buy_potential IN ('>10000', 'Unknown', '0-500')
    AND hd_dep_count / nullif(hd_vehicle_count, 0) > 1
    AND s_county IS NOT NULL
  GROUP BY ss_ticket_number, ss_customer_sk
)
SELECT c_last_name, c_first_name, c_salutation, c_preferred_cust_flag, ss_ticket_number, items
FROM ticket
JOIN customer ON c_customer_sk = ss_customer_sk
WHERE items BETWEEN 1 AND 10
ORDER BY items DESC, c_last_name, c_first_name, ss_ticket_number
