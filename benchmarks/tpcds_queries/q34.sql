-- Which customers with many dependents have large purchases at the start or end of a month?
WITH ticket AS (
  SELECT ss_ticket_number AS number, ss_customer_sk AS customer_sk, count(*) AS items
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
  JOIN store ON s_store_sk = ss_store_sk
  WHERE d_year BETWEEN 1998 AND 2000
    AND (d_dom BETWEEN 1 AND 3 OR d_dom BETWEEN 25 AND 28)
    AND hd_buy_potential IN ('>10000', 'Unknown', '1001-5000')
    AND hd_vehicle_count > 0
    AND hd_dep_count > 1.2 * hd_vehicle_count
  GROUP BY ss_ticket_number, ss_customer_sk
  HAVING count(*) BETWEEN 12 AND 20
)
SELECT
  c_last_name, c_first_name, c_salutation, c_preferred_cust_flag, number, items
FROM ticket
JOIN customer ON c_customer_sk = customer_sk
ORDER BY c_last_name, c_first_name, c_salutation, c_preferred_cust_flag DESC, number
LIMIT 100
