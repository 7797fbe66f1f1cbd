-- Which customers shop on weekends in a city where they don't live, and what do they spend?
WITH ticket AS (
  SELECT
    ss_ticket_number AS number, ss_customer_sk AS customer_sk, ca_city AS bought_city,
    sum(ss_coupon_amt) AS coupons, sum(ss_net_profit) AS profit
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
  JOIN customer_address ON ca_address_sk = ss_addr_sk
  WHERE d_year BETWEEN 1999 AND 2001
    AND d_day_name IN ('Saturday', 'Sunday')
    AND (hd_dep_count = 4 OR hd_vehicle_count = 3)
    AND s_city IN ('Fairview', 'Midway')
  GROUP BY ss_ticket_number, ss_customer_sk, ss_addr_sk, ca_city
)
SELECT c_last_name, c_first_name, ca_city, bought_city, number, coupons, profit
FROM ticket
JOIN customer ON c_customer_sk = customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk AND ca_city <> bought_city
ORDER BY c_last_name, c_first_name, ca_city, bought_city, number, coupons, profit
LIMIT 100
