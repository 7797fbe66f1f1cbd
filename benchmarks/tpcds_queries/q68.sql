-- Which customers bought at a store early in a month while they lived in another city than now?
WITH ticket AS (
  SELECT
    ss_ticket_number,
    ss_customer_sk,
    ca_city AS earlier_city,
    sum(ss_ext_sales_price) AS price,
    sum(ss_ext_list_price) AS list_price,
    sum(ss_ext_tax) AS tax
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
  JOIN customer_address ON ca_address_sk = ss_addr_sk
  WHERE d_dom BETWEEN 1 AND 3
    AND d_year BETWEEN 1999 AND 2001
    AND (hd_dep_count = 4 OR hd_vehicle_count = 3)
    AND s_city IN ('Midway', 'Fairview')
  GROUP BY ss_ticket_number, ss_customer_sk, ss_addr_sk, ca_city
)
SELECT
  c_last_name, c_first_name, ca_city, earlier_city, ss_ticket_number, price, list_price, tax
FROM ticket
JOIN customer ON c_customer_sk = ss_customer_sk
JOIN customer_address ON ca_address_sk = c_current_addr_sk
WHERE ca_city <> earlier_city
ORDER BY c_last_name, ss_ticket_number, c_first_name, price
LIMIT 100
